import { describe, expect, test } from 'vitest';
import * as format from './format';

const MiB = 2 ** 20;
const GiB = 2 ** 30;

/** [value, text] rows; every text was computed by hand. */
function table<T>(name: string, format: (value: T) => string, rows: [T, string][]) {
  describe(name, () => {
    test.each(rows)('%s', (value, text) => expect(format(value)).toBe(text));
  });
}

table('memoryBytes counts in 2^30', format.memoryBytes, [
  [0, '0 MB'],
  [1, '1 KB'],
  [20 * 1024, '20 KB'],
  [0.04 * MiB, '41 KB'],
  [0.05 * MiB, '0.1 MB'],
  [9.94 * MiB, '9.9 MB'],
  [9.95 * MiB, '10 MB'],
  [61.4 * MiB, '61 MB'],
  [999.4 * MiB, '999 MB'],
  [999.5 * MiB, '1.0 GB'],
  [GiB, '1.0 GB'],
  [20_830_000_000, '19.4 GB'],
  [1536 * GiB, '1,536.0 GB'],
  [NaN, '–'],
]);

table('diskBytes counts in 10^9', format.diskBytes, [
  [11_400_000, '11.4 MB'],
  [99_949_999, '99.9 MB'],
  [99_950_000, '100 MB'],
  [18_600_000_000, '18.6 GB'],
  [1_000_000_000, '1.0 GB'],
]);

table('count', format.count, [
  [0, '0'],
  [999, '999'],
  [1000, '1,000'],
  [32768, '32,768'],
  [1234567, '1,234,567'],
  [Infinity, '–'],
]);

table('tokens', format.tokens, [
  [0, '0 tokens'],
  [1, '1 token'],
  [2048, '2,048 tokens'],
]);

table('tokensPerSecond', format.tokensPerSecond, [
  [0, '0.0 tok/s'],
  [43.21, '43.2 tok/s'],
  [99.94, '99.9 tok/s'],
  [99.95, '100 tok/s'],
  [212.4, '212 tok/s'],
  [1204, '1,204 tok/s'],
]);

table('duration', format.duration, [
  [0, '0.0 s'],
  [0.04, '<0.1 s'],
  [0.4, '0.4 s'],
  [9.94, '9.9 s'],
  [9.96, '10 s'],
  [59.4, '59 s'],
  [59.6, '1 min'],
  [130, '2 min 10 s'],
  [3600, '1 h'],
  [3900, '1 h 5 min'],
  [-1, '–'],
]);

table(
  'share is 100 % for the whole only',
  ([part, whole]: [number, number]) => format.share(part, whole),
  [
    [[0, 8], '0 %'],
    [[1, 1000], '<1 %'],
    [[6, 8], '75 %'],
    [[999, 1000], '99 %'],
    [[8, 8], '100 %'],
    [[1, 0], '–'],
  ],
);

table('sentence', format.sentence, [
  ['it may have ended', 'It may have ended.'],
  ['Done.', 'Done.'],
  ['model.safetensors is cut short', 'model.safetensors is cut short.'],
  [' ', ''],
]);

table('shortFormat', format.shortFormat, [
  ['K8 g64 + V4 g32, first and last 2 layers K8 V8', 'K8 g64 + V4 g32'],
  ['f16', 'f16'],
  ['', ''],
]);

describe('moment', () => {
  const now = new Date(2026, 4, 3, 16, 0).getTime();
  test.each([
    [new Date(2026, 4, 3, 9, 5), '09:05'],
    [new Date(2026, 4, 2, 14, 5), 'yesterday 14:05'],
    [new Date(2026, 4, 1, 23, 59), '1 May'],
    [new Date(2024, 11, 31), '31 Dec 2024'],
  ])('%s', (then, text) => expect(format.moment(then.getTime(), now)).toBe(text));
});

test.each([
  [34_700_000_000, '34.7B'],
  [122_100_000_000, '122B'],
  [596_049_920, '596M'],
  [4_512_345, '4.5M'],
  [999_600_000, '1.0B'],
  [0, '–'],
  [NaN, '–'],
])('parameters: %d is written %s', (value, text) => expect(format.parameters(value)).toBe(text));
