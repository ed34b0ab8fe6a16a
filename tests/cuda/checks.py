"""What the programs that check a framework have in common; each lies beside it."""


def run(namespace):
    """Calls every ``check_NAME`` of a program's globals, in their order, and says which passed."""
    for name, check in list(namespace.items()):
        if name.startswith("check_"):
            check()
            print(name.removeprefix("check_"), "ok", flush=True)
