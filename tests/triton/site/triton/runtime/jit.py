import inspect


class JITFunction:
    def __init__(self, fn):
        self.fn = fn
        self.raw_src, self.starting_line_number = inspect.getsourcelines(fn)
        self.arg_names = list(inspect.signature(fn).parameters)


def jit(fn):
    return JITFunction(fn)
