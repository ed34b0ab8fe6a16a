"""Steps from first principles: work and traffic of each operator over what the GPU could do.

For any model that `model_shape` understands and any GPU of the catalogue, a user's own and one that
does not exist included. The efficiencies (`roofline`) are round figures near what is measured on
an H100; for other GPUs they are assumptions.
"""
