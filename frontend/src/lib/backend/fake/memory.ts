// The fake what-if calculation, and the fake wired limit.
import type {
  Fit,
  Memory,
  SegmentKind,
  State,
  WhatIf,
  WhatIfFormat,
  WhatIfQuery,
  Wired,
} from '../types';

const GiB = 2 ** 30;
const trainedTokens = 262_144;
const daemon = '/Library/LaunchDaemons/app.headroom.wired-limit.plist';

const formats: Pick<WhatIfFormat, 'name' | 'kvFormat' | 'kvBits' | 'kvBytesPerToken'>[] = [
  { name: '8-bit keys, 4-bit values', kvFormat: '', kvBits: '', kvBytesPerToken: 9664 },
  { name: '8-bit', kvFormat: 'affine', kvBits: '(8, 8)', kvBytesPerToken: 11_000 },
  { name: '16-bit, exact', kvFormat: 'f16', kvBits: '', kvBytesPerToken: 20_480 },
];

/**
 * Plans a model with weights of that size. Its KV cache and state have the size of those of a
 * 35B model.
 */
export function fakeWhatIf(
  { model, contextTokens, streams }: WhatIfQuery,
  { roomBytes, memory }: State,
  weightsBytes: number,
): WhatIf {
  const stateBytes = streams * 63e6;
  const scratchBytes = 0.4 * GiB;
  const plans = formats.map((format): WhatIfFormat => {
    const kvBytes = contextTokens * format.kvBytesPerToken;
    const need = { contextTokens, weightsBytes, kvBytes, stateBytes, scratchBytes };
    const needBytes = weightsBytes + stateBytes + scratchBytes + kvBytes;
    const largest = (roomBytes - (needBytes - kvBytes)) / format.kvBytesPerToken;
    return {
      ...format,
      need,
      needBytes,
      fullBytes: needBytes + (streams - 1) * kvBytes,
      fits: fitOf(needBytes, roomBytes),
      largestContextTokens: Math.max(0, Math.min(trainedTokens, Math.floor(largest / 32) * 32)),
      memory: planned(memory, {
        weights: weightsBytes,
        kv_used: kvBytes,
        state: stateBytes,
        scratch: scratchBytes,
      }),
    };
  });
  return { model, contextTokens, streams, trainedTokens, roomBytes, formats: plans };
}

/** The ledger with a model of these sizes in place of all others. */
function planned(memory: Memory, sizes: Partial<Record<SegmentKind, number>>): Memory {
  const kept = memory.segments.filter(({ kind }) => kind === 'headroom' || kind === 'other');
  const all = { ...sizes, ...Object.fromEntries(kept.map(({ kind, bytes }) => [kind, bytes])) };
  const taken = Object.values(all).reduce((sum, bytes) => sum + bytes, 0);
  return {
    ...memory,
    totalBytes: Math.max(memory.totalBytes, taken),
    segments: memory.segments.map(({ kind }) => ({
      kind,
      bytes: kind === 'free' ? Math.max(0, memory.totalBytes - taken) : (all[kind] ?? 0),
      source: 'estimated',
    })),
  };
}

function fitOf(needBytes: number, roomBytes: number): Fit {
  if (needBytes > roomBytes) return 'no';
  return needBytes > 0.85 * roomBytes ? 'tight' : 'yes';
}

/** The wired limit of a 24 GB Mac, with the commands for a limit; 0: for the safe one. */
export function fakeWired(limitBytes: number): Wired {
  const requestedBytes = limitBytes || 20 * GiB;
  const sysctl = (bytes: number) => `/usr/sbin/sysctl iogpu.wired_limit_mb=${bytes / 2 ** 20}`;
  return {
    unavailableReason: '',
    limitBytes: 0,
    persistedBytes: 0,
    recommendedBytes: 16 * GiB,
    safeBytes: 20 * GiB,
    minBytes: GiB,
    maxBytes: 22 * GiB,
    earlierBytes: 0,
    requestedBytes,
    commands: {
      set: sysctl(requestedBytes),
      persist: `${sysctl(requestedBytes)} && \\\n/bin/launchctl bootstrap system ${daemon}`,
      reset: `${sysctl(0)} && \\\n/bin/rm -f ${daemon}`,
    },
  };
}
