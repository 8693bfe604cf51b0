class ir:
    @staticmethod
    def context():
        return {"dialects": 0}

    @staticmethod
    def load_dialects(context):
        context["dialects"] += 1
