"""What Python programs use of Holdfast. See holdfast.mininet."""
