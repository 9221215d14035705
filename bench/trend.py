"""Whether a figure stays as it is while something goes on: the slope of its samples, with the confidence of it."""

import math
import statistics
from dataclasses import dataclass


@dataclass
class Trend:
    """How much a figure changes over the whole run, in percent of its mean: the estimate, and its 95 % interval."""

    mean: float
    change: float
    low: float
    high: float

    def __str__(self):
        return f"{self.change:+.1f} % ({self.low:+.1f} to {self.high:+.1f})"

    def grows(self, limit):
        """whether it grows by more than so many percent, and not by chance"""
        return self.low > 0 and self.change > limit

    def falls(self, limit):
        return self.high < 0 and self.change < -limit


def trend(samples):
    """By least squares over the numbers of the samples."""
    n = len(samples)
    mean_x, mean_y = (n - 1) / 2, statistics.fmean(samples)
    spread = sum((x - mean_x) ** 2 for x in range(n))
    slope = sum((x - mean_x) * (y - mean_y) for x, y in enumerate(samples)) / spread
    rest = sum((y - mean_y - slope * (x - mean_x)) ** 2 for x, y in enumerate(samples))
    error = math.sqrt(rest / (n - 2) / spread)
    t = 1.96 + 2.5 / (n - 2)  # Student's, of this many degrees of freedom, close enough from five on
    percent = 100 * (n - 1) / mean_y if mean_y else 0.0
    return Trend(mean_y, slope * percent, (slope - t * error) * percent, (slope + t * error) * percent)
