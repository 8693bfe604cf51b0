class constexpr:
    def __init__(self, value):
        self.value = value


class dtype:
    def __init__(self, name):
        self.name = name


float32, float16, bfloat16, float8e4nv = dtype("fp32"), dtype("fp16"), dtype("bf16"), dtype("fp8e4nv")
int32, int64, int8, uint8 = dtype("i32"), dtype("i64"), dtype("i8"), dtype("u8")
