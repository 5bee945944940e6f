"""Where chunks are kept: one module per backend, named after it.

Import the module of the backend that you want; each loads its engine when the first store is made.
"""
