"""Tables that stay where they are: files, lazy frames and the workers of a Dask cluster."""
