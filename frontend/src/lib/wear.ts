// What the cache's writing does to a drive, worked out from what was written and since when.
//
// Drives wear by bytes written, and makers name how many they stand. Headroom does not know the
// drive, so it assumes little: 200 times its size, what is named for drives with four bits in a
// cell (Intel's 660p: 100 TB for 512 GB). Most with three bits are rated two to three times that.
// Only what the cache wrote is counted: not other programs, nor what the file system adds.
import type { Cache } from './backend/types';

/** Whole-drive writes that a drive is assumed to stand. */
export const driveWrites = 200;

const dayMs = 86_400_000;
const daysOfYear = 365.25;

export type Wear =
  /** Not known, or not for long enough to go by: a first day says little about a year. */
  | { known: false; daysSoFar: number }
  | {
      known: true;
      daysSoFar: number;
      bytesADay: number;
      bytesAYear: number;
      driveShareAYear: number | null;
      years: number | null;
    };

/**
 * Extrapolates the writes so far. `driveShareAYear` is null if the drive's size is unknown; `years`
 * is null then too, and if nothing was written.
 */
export function wear(cache: Cache, now: number): Wear {
  const daysSoFar = cache.writtenSince > 0 ? Math.max(0, (now - cache.writtenSince) / dayMs) : 0;
  if (daysSoFar < 1) return { known: false, daysSoFar };
  const bytesADay = cache.writtenBytes / daysSoFar;
  const bytesAYear = bytesADay * daysOfYear;
  const stands = cache.diskBytes * driveWrites;
  return {
    known: true,
    daysSoFar,
    bytesADay,
    bytesAYear,
    driveShareAYear: stands > 0 ? bytesAYear / stands : null,
    years: stands > 0 && bytesAYear > 0 ? stands / bytesAYear : null,
  };
}

/**
 * The drive's life in years if each day's budget is used up. Null without a budget or a known
 * drive.
 */
export function leastYears(cache: Cache): number | null {
  if (!(cache.dailyWriteBytes > 0) || !(cache.diskBytes > 0)) return null;
  return (cache.diskBytes * driveWrites) / (cache.dailyWriteBytes * daysOfYear);
}
