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

export interface Minute {
    minute: string;
    transitions: number;
    failures: number;
}

/** Sixty minutes that end now, from those in which something moved. */
export function lastHour(minutes: Minute[], now: string): Minute[] {
    const last = Math.floor(Date.parse(now) / 60_000);
    if (Number.isNaN(last)) return [];
    const known = new Map(minutes.map((m) => [Math.floor(Date.parse(m.minute) / 60_000), m]));
    return Array.from({ length: 60 }, (_, i) => {
        const at = last - 59 + i;
        return known.get(at) ?? { minute: new Date(at * 60_000).toISOString(), transitions: 0, failures: 0 };
    });
}
