import { expect, test } from 'vitest';
import { fakeCache } from './backend/fake';
import { wear } from './wear';

const day = 86_400_000;
const now = 1_800_000_000_000;

test('10 days at 5 GB a day on a 500 GB drive', () => {
  const found = wear(
    fakeCache({ writtenBytes: 50e9, writtenSince: now - 10 * day, diskBytes: 500e9 }),
    now,
  );
  if (!found.known) throw new Error('a forecast was expected');
  expect(found.bytesADay).toBeCloseTo(5e9, 0);
  expect(found.bytesAYear).toBeCloseTo(1826.25e9, 0);
  // The assumed rating of the drive is 200 x 500 GB = 100 TB.
  expect(found.driveShareAYear).toBeCloseTo(0.0182625, 9);
  expect(found.years).toBeCloseTo(54.757, 3);
});

test('less than a day, or no start', () => {
  expect(wear(fakeCache({ writtenSince: now - 0.9 * day }), now)).toMatchObject({ known: false });
  expect(wear(fakeCache({ writtenSince: now - 1.1 * day }), now)).toMatchObject({ known: true });
  expect(wear(fakeCache({ writtenSince: 0 }), now)).toEqual({ known: false, daysSoFar: 0 });
  expect(wear(fakeCache({ writtenSince: now + day }), now)).toEqual({ known: false, daysSoFar: 0 });
});

test('an unknown drive, or nothing written', () => {
  const since = { writtenSince: now - 2 * day };
  expect(wear(fakeCache({ ...since, diskBytes: 0 }), now)).toMatchObject({
    known: true,
    driveShareAYear: null,
    years: null,
  });
  expect(wear(fakeCache({ ...since, writtenBytes: 0, diskBytes: 1e12 }), now)).toMatchObject({
    driveShareAYear: 0,
    years: null,
  });
});
