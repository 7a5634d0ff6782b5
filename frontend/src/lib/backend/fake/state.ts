// The state of the fake engine, and the figures in it.
import type {
  Cache,
  CacheSettings,
  Engine,
  Removed,
  SegmentKind,
  Source,
  SpeedSample,
  State,
} from '../types';

const GiB = 2 ** 30;
const historySamples = 120;

/** The limits of the cache that a setting of 0 stands for. */
const defaultLimits = { maxBytes: 20e9, minFreeBytes: 10e9, dailyWriteBytes: 40e9 };

/** The speeds that the state reports while a request runs. */
export const runningSpeed = { decodeTokensPerSecond: 212.4, prefillTokensPerSecond: 1204 };
/** The speeds that the state reports while no request runs. */
export const idleSpeed = { decodeTokensPerSecond: 0, prefillTokensPerSecond: 0 };

/** A loaded model. */
export function fakeEngine(model: string, now = Date.now()): Engine {
  return {
    status: 'ready',
    model,
    progress: 1,
    device: 'CPU, AVX-512 VNNI, 2 threads',
    contextTokens: 32768,
    cacheFormat: 'f16',
    stateFormat: 'f32',
    drafter: '',
    lookups: true,
    draftModel: '',
    draftModelUnused: '',
    error: null,
    retryAt: 0,
    notice: null,
    requested: false,
    pinned: false,
    requests: 0,
    memoryBytes: 1.2 * GiB,
    reservedBytes: 0,
    generatedTokens: 0,
    draftTokens: 0,
    acceptedTokens: 0,
    gained: 0,
    savedSeconds: 0,
    noDrafts: '',
    lastUsedAt: now,
    decodeTokensPerSecond: 0,
  };
}

/** A 24 GB machine with the demo model loaded and two requests running. */
export function fakeState(now = Date.now()): State {
  const sample = (index: number): SpeedSample => ({
    at: now - (historySamples - 1 - index) * 5000,
    decode: index < 30 ? 0 : 180 + 40 * Math.sin(index / 7),
    prefill: 0,
    memoryBytes: (index < 30 ? 0.2 : 1.4 + index / 400) * GiB,
  });
  const engine = fakeEngine('headroom-demo', now);
  return {
    version: '0.1.0',
    engine,
    engines: [engine],
    endpoint: { url: 'http://127.0.0.1:11811/v1', uiUrl: 'http://127.0.0.1:11811/' },
    memory: fakeMemory(true),
    cache: fakeCache({}),
    reuse: {
      memoryTokens: 940_000,
      diskTokens: 20_000,
      computedTokens: 40_000,
      recomputedTokens: 15_000,
    },
    speed: {
      ...runningSpeed,
      history: Array.from({ length: historySamples }, (_, index) => sample(index)),
    },
    pressure: {
      level: 'normal',
      swapUsedBytes: 0.5 * GiB,
      swapTotalBytes: 2 * GiB,
      stallPercent: 0,
      advice: [],
      freedBytes: 0,
    },
    power: { source: 'ac', thermalState: 'nominal', measures: [] },
    requests: [
      {
        id: 'chatcmpl-1',
        title: 'Refactor the scheduler so that it has one queue',
        client: 'claude-cli',
        key: 'Laptop',
        model: 'headroom-demo',
        phase: 'prefill',
        lacksBytes: 0,
        promptTokens: 8192,
        promptDoneTokens: 3072,
        cachedTokens: 2048,
        generatedTokens: 0,
        tokensPerSecond: 0,
        startedAt: now - 4000,
      },
      {
        id: 'chatcmpl-2',
        title: 'Plan a week in Lisbon',
        client: 'Headroom',
        key: '',
        model: 'headroom-demo',
        phase: 'decode',
        lacksBytes: 0,
        promptTokens: 412,
        promptDoneTokens: 412,
        cachedTokens: 384,
        generatedTokens: 96,
        tokensPerSecond: 98.3,
        startedAt: now - 1400,
      },
    ],
    lastFinished: 'chatcmpl-0',
    modelsVersion: 1,
    checking: '',
    checksVersion: 0,
    roomBytes: 15.5 * GiB,
  };
}

/** Returns the history with a sample of the state's current figures. */
export function withSample({ speed, memory }: State, at: number): SpeedSample[] {
  const memoryBytes = memory.segments
    .filter(({ kind }) => kind !== 'other' && kind !== 'free')
    .reduce((sum, { bytes }) => sum + bytes, 0);
  const { decodeTokensPerSecond: decode, prefillTokensPerSecond: prefill, history } = speed;
  return [...history.slice(1 - historySamples), { at, decode, prefill, memoryBytes }];
}

/** The figures of a cache that was used for twelve days. */
export function fakeCache(change: Partial<Cache>): Cache {
  return {
    on: true,
    dir: '/home/you/.cache/headroom/blocks',
    bytes: 4.2e9,
    ...defaultLimits,
    entries: 2310,
    diskBytes: 494e9,
    freeBytes: 210e9,
    todayBytes: 1.1e9,
    writtenBytes: 12e9,
    writtenSince: Date.now() - 12 * 86_400_000,
    hits: 48,
    misses: 9,
    secondsSaved: 1900,
    dropped: 0,
    skipped: 0,
    damaged: 0,
    otherVersions: 0,
    evicted: 120,
    saveErrors: 0,
    error: '',
    memoryBytes: 0.3 * GiB,
    ...change,
  };
}

/** The figures with the limits of these settings. */
export function withLimits(cache: Cache, settings: CacheSettings): Cache {
  return {
    ...cache,
    maxBytes: settings.maxBytes || defaultLimits.maxBytes,
    minFreeBytes: settings.minFreeBytes || defaultLimits.minFreeBytes,
    dailyWriteBytes: settings.dailyWriteBytes || defaultLimits.dailyWriteBytes,
  };
}

/** The figures after a request has missed the cache and stored these entries. */
export function withEntries(cache: Cache, { entries, bytes, memoryBytes }: Removed): Cache {
  return {
    ...cache,
    entries: cache.entries + entries,
    bytes: cache.bytes + bytes,
    memoryBytes: cache.memoryBytes + memoryBytes,
    todayBytes: cache.todayBytes + bytes,
    writtenBytes: cache.writtenBytes + bytes,
    misses: cache.misses + 1,
  };
}

/** The figures after these entries were removed. */
export function withoutEntries(cache: Cache, { entries, bytes, memoryBytes }: Removed): Cache {
  return {
    ...cache,
    entries: Math.max(0, cache.entries - entries),
    bytes: Math.max(0, cache.bytes - bytes),
    memoryBytes: Math.max(0, cache.memoryBytes - memoryBytes),
  };
}

/** The memory of a 24 GB machine, with or without a model. */
export function fakeMemory(loaded: boolean): State['memory'] {
  const own: [SegmentKind, number, Source][] = loaded
    ? [
        ['weights', 4.1, 'measured'],
        ['kv_used', 0.6, 'measured'],
        ['kv_cached', 0.3, 'measured'],
        ['state', 0.2, 'measured'],
        ['scratch', 0.4, 'estimated'],
        ['reserved', 1.1, 'measured'],
      ]
    : [];
  const sizes: [SegmentKind, number, Source][] = [
    ...own,
    ['headroom', 0.3, 'measured'],
    ['other', 7.2, 'reported'],
  ];
  const free = 24 - sizes.reduce((sum, [, size]) => sum + size, 0);
  return {
    totalBytes: 24 * GiB,
    availableBytes: free * GiB,
    headroomBytes: (free - 1) * GiB,
    wiredLimitBytes: 18 * GiB,
    segments: [...sizes, ['free', free, 'reported'] as [SegmentKind, number, Source]].map(
      ([kind, size, source]) => ({
        kind,
        bytes: size * GiB,
        source,
      }),
    ),
  };
}
