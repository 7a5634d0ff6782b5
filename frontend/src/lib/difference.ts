// The first difference between two texts: the common beginning, the parts that differ, and the
// rest. Texts are compared by grapheme, so that no character is cut.

export interface Difference {
  /** The common beginning. */
  before: string;
  was: string;
  is: string;
  /** The rest of each text. Both are equal except at the end, where texts were cut. */
  wasAfter: string;
  isAfter: string;
}

/** The texts agree again after this many equal characters; fewer may be chance. */
const meeting = 4;

export function difference(was: string, is: string): Difference {
  const a = characters(was);
  const b = characters(is);
  let from = 0;
  while (from < a.length && from < b.length && a[from] === b[from]) from++;
  const [wasTo, isTo] = meet(a, b, from);
  const text = (list: string[], start: number, end = list.length) =>
    list.slice(start, end).join('');
  return {
    before: text(a, 0, from),
    was: text(a, from, wasTo),
    is: text(b, from, isTo),
    wasAfter: text(a, wasTo),
    isAfter: text(b, isTo),
  };
}

/**
 * Finds the nearest place after `from` where both texts agree again for a while, or else their
 * ends.
 */
function meet(a: string[], b: string[], from: number): [number, number] {
  const alike = (i: number, j: number) => {
    for (let n = 0; n < meeting; n++) {
      // Fewer equal characters are enough if both texts end with them.
      if (i + n >= a.length || j + n >= b.length)
        return n > 0 && i + n === a.length && j + n === b.length;
      if (a[i + n] !== b[j + n]) return false;
    }
    return true;
  };
  for (let sum = 0; sum < a.length + b.length - 2 * from; sum++) {
    for (let left = 0; left <= sum; left++) {
      const i = from + left;
      const j = from + sum - left;
      if (i < a.length && j < b.length && alike(i, j)) return [i, j];
    }
  }
  return [a.length, b.length];
}

function characters(text: string): string[] {
  if (typeof Intl.Segmenter === 'undefined') return [...text];
  return Array.from(
    new Intl.Segmenter(undefined, { granularity: 'grapheme' }).segment(text),
    ({ segment }) => segment,
  );
}
