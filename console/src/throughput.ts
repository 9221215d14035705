// State changes a second, from totals that are read periodically: the server's statistics
// count log entries anyway. Pure.

export interface Sample {
    at: number;
    total: number;
}

export interface Rate {
    at: number;
    perSecond: number;
}

/** Keeps the samples of the last rates; starts again when totals shrink (statistics were reset). */
export function sampled(samples: Sample[], next: Sample, most = 61): Sample[] {
    const last = samples[samples.length - 1];
    if (last && next.total < last.total) return [next];
    if (last && next.at - last.at < 1000) return samples;
    return [...samples, next].slice(-most);
}

export function rates(samples: Sample[]): Rate[] {
    return samples
        .slice(1)
        .map((s, i) => ({ at: s.at, perSecond: ((s.total - samples[i].total) * 1000) / (s.at - samples[i].at) }));
}
