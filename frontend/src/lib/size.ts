// Parses sizes typed into a field. Units are powers of 1,000, as for disks; a bare number is in GB.

const units: Record<string, number> = {
  '': 1e9,
  b: 1,
  kb: 1e3,
  mb: 1e6,
  gb: 1e9,
  tb: 1e12,
  k: 1e3,
  m: 1e6,
  g: 1e9,
  t: 1e12,
};

/**
 * "15", "15 GB", "1.5 TB" → bytes; "" → 0, the default; "none" → -1, no limit; not a size → null.
 */
export function parseSize(text: string): number | null {
  const typed = text.trim().toLowerCase();
  if (typed === '' || typed === 'default') return 0;
  if (typed === 'none' || typed === 'no limit') return -1;
  const [, number, unit] = /^(\d[\d,]*(?:\.\d+)?|\.\d+)\s*([a-z]*)$/.exec(typed) ?? [];
  const factor = units[unit ?? ''];
  if (number === undefined || factor === undefined) return null;
  const bytes = Math.round(Number(number.replaceAll(',', '')) * factor);
  // A size of 0 would mean the default.
  return bytes > 0 && Number.isSafeInteger(bytes) ? bytes : null;
}

/** Formats a size for parseSize: 15e9 → "15 GB", 0 → "", -1 → "none". */
export function sizeText(bytes: number): string {
  if (bytes === 0) return '';
  if (bytes < 0) return 'none';
  const [factor, unit] = (
    [
      [1e12, 'TB'],
      [1e9, 'GB'],
      [1e6, 'MB'],
      [1e3, 'KB'],
    ] as const
  ).find(([size]) => bytes >= size) ?? [1, 'B'];
  return `${bytes / factor} ${unit}`;
}
