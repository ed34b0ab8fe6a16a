"""What is changed in the engines and in the libraries that they stand on, from outside.

Nothing is installed there and no file of theirs is edited: ``autoload/`` lies on the members'
PYTHONPATH, and the frameworks' own plugin entry points find it.
"""
