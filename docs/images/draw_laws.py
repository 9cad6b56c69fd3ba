"""Draw law-*.png of docs/transports.md: python docs/images/draw_laws.py, from the repository."""

import io
import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from benchmarks.transport_choice import LAWS, SEED, left_over  # noqa: E402
from dfi.transports import Brenier, Copula, Gaussian  # noqa: E402

MAPS = {"gaussian": Gaussian(), "copula": Copula(), "brenier": Brenier()}
SHOWN = 700


def draw(at: int, name: str) -> None:
    """Show two columns of fresh rows of a law, and their latent coordinates under three maps."""
    generator = np.random.default_rng([SEED, 3, at])
    X, fresh = LAWS[name](1000, generator), LAWS[name](1000, generator)
    figure = Figure(figsize=(9.6, 2.55), layout="constrained")
    axes = figure.subplots(1, 4)
    panels = {"x1 and x2": fresh}
    for label, transport in MAPS.items():
        area = left_over(transport, X, fresh, at).auc
        panels[f"z1 and z2, {label} ({area:.2f})"] = transport.fit(X).transform(fresh)
    for ax, (title, rows) in zip(axes, panels.items(), strict=True):
        ax.plot(*rows[:SHOWN, :2].T, ".", ms=2.2, color="#1f5a99", mew=0)
        ax.set_title(title, fontsize=9)
        ax.tick_params(labelsize=7)
        if ax is not axes[0]:
            ax.set(xlim=(-4, 4), ylim=(-4, 4), aspect="equal")
    stream = io.BytesIO()
    figure.savefig(stream, dpi=100)
    words = "".join(c if c.isalnum() else " " for c in name.lower()).split()
    target = HERE / f"law-{'-'.join(words)}.png"
    Image.open(stream).convert("RGB").quantize(32).save(target, optimize=True)


if __name__ == "__main__":
    for at, name in enumerate(LAWS):
        draw(at, name)
