"""Studies of the method on its own public interface."""
