// Estimates how the writes of the cache wear the drive.
//
// Drives are rated for a number of written bytes. Headroom does not know the drive and assumes a
// low rating: 200 times its size, as for drives with four bits per cell (Intel's 660p: 100 TB for
// 512 GB). Most drives with three bits per cell are rated two to three times that. Only writes of
// the cache count, without those of other programs and of the file system.
import type { Cache } from './backend/types';

/** The assumed rating of a drive, in multiples of its size. */
export const driveWrites = 200;

const dayMs = 86_400_000;
const daysOfYear = 365.25;

export type Wear =
  /** Unknown, or less than a day of writes. */
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
