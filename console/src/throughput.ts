// Moves a second, from totals that were looked at now and then: the server's statistics count what is logged anyway. Pure.

export interface Sample {
    at: number;
    total: number;
}

export interface Rate {
    at: number;
    perSecond: number;
}

/** Keeps what is needed for so many rates; totals that shrink (statistics were reset) begin anew. */
export function sampled(samples: Sample[], next: Sample, most = 61): Sample[] {
    const last = samples[samples.length - 1];
    if (last && next.total < last.total) return [next];
    if (last && next.at - last.at < 1000) return samples;
    return [...samples, next].slice(-most);
}

export function rates(samples: Sample[]): Rate[] {
    return samples.slice(1).map((s, i) => ({ at: s.at, perSecond: ((s.total - samples[i].total) * 1000) / (s.at - samples[i].at) }));
}
