"""A progress that keeps what it was told."""


class Told:
    def __init__(self):
        self.notes, self.begun, self.reports, self.amount, self.finished = [], [], [], 0, 0

    def start(self, runs, kept, amount):
        self.started = (runs, kept, amount)

    def note(self, text):
        self.notes.append(text)

    def begin(self, run):
        self.begun.append(run)

    def advance(self, amount):
        self.amount += amount

    def report(self, numbers):
        self.reports.append(numbers)

    def finish(self):
        self.finished += 1
