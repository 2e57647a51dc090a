"""What `penstock init` writes: a project that runs at once. The files are data beside `layout`, which lists them."""
