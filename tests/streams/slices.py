"""A frame in memory as a table in parts, for comparisons."""

from dataclasses import dataclass
from itertools import pairwise

from dfi._data.frames import open_frame
from dfi._streams.parts import InOrder, open_part


@dataclass(frozen=True, eq=False)
class Slices(InOrder):
    """A frame in memory, cut between some rows."""

    frame: object
    cuts: tuple = ()

    what = "a frame in slices"

    @property
    def library(self):
        opened = open_frame(self.frame)
        if opened is None:
            raise TypeError(f"X is a {type(self.frame).__name__}, not a frame.")
        return opened[0]

    @property
    def labels(self):
        return open_part(self.frame).labels

    def header(self, features):
        if self.library != "pandas":
            return None
        return self.frame[[self.labels[name] for name in features]].columns

    def frames(self, columns):
        labels = [self.labels[name] for name in columns]
        frame = self.frame[labels] if self.library == "pandas" else self.frame.select(labels)
        ends = [0, *self.cuts, len(open_part(frame).columns[columns[0]])]
        for number, (start, stop) in enumerate(pairwise(ends)):
            rows = (
                frame.iloc[start:stop]
                if self.library == "pandas"
                else frame.slice(start, stop - start)
            )
            yield f"slice {number}", rows
