"""Tables of the report."""


def table(head, rows):
    """Markdown that also reads well on a screen: the first column to the left, numbers to the right."""
    cells = [head] + rows
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]

    def line(row):
        return (
            "| " + " | ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))) + " |"
        )

    rule = "|" + "|".join("-" * (w + 2) if i == 0 else "-" * (w + 1) + ":" for i, w in enumerate(widths)) + "|"
    return "\n".join([line(head), rule] + [line(row) for row in rows])
