// Formats numbers, so that a figure reads the same on every page.
//
// Memory is counted in GiB and written "GB", as the system's own monitor does; files are counted in
// GB of 10^9 bytes, as the Finder does. Tooltips say which. A number that is not finite is written
// as a dash.
import { units } from '../strings/units';

const dash = '–';

/**
 * Memory: 20_830_000_000 → "19.4 GB" (of 2^30 bytes). MB have a decimal below 10 only, because they
 * change often.
 */
export function memoryBytes(bytes: number): string {
  return scaled(bytes, 1024, 9.95);
}

/** Files: 18_600_000_000 → "18.6 GB" (of 10^9 bytes), 11_400_000 → "11.4 MB". */
export function diskBytes(bytes: number): string {
  return scaled(bytes, 1000, 99.95);
}

/**
 * GB have one decimal. MB have one below `wholeFromMega` only. That limit ends in .95, because such
 * a value rounds up to a whole number.
 */
function scaled(bytes: number, base: number, wholeFromMega: number): string {
  if (!Number.isFinite(bytes)) return dash;
  const mega = base * base;
  const giga = mega * base;
  // Nothing is ever written as "1,000 MB".
  if (bytes >= 999.5 * mega) return `${grouped(bytes / giga, 1)} GB`;
  if (bytes >= wholeFromMega * mega) return `${grouped(bytes / mega, 0)} MB`;
  if (bytes >= 0.05 * mega) return `${grouped(bytes / mega, 1)} MB`;
  if (bytes > 0) return `${grouped(Math.max(1, bytes / base), 0)} KB`;
  return '0 MB';
}

/** 32768 → "32,768". */
export function count(value: number): string {
  return grouped(value, 0);
}

/** 1 → "1 token", 2048 → "2,048 tokens". */
export function tokens(value: number): string {
  return units.tokens(count(value));
}

/** Parameter counts: 34_700_000_000 → "34.7B", 596_000_000 → "596M", 4_500_000 → "4.5M". */
export function parameters(value: number): string {
  if (!Number.isFinite(value) || value <= 0) return dash;
  if (value >= 999.5e6) return `${grouped(value / 1e9, value < 99.95e9 ? 1 : 0)}B`;
  return value >= 9.95e6 ? `${grouped(value / 1e6, 0)}M` : `${grouped(value / 1e6, 1)}M`;
}

/** One decimal below 100: "43.2 tok/s", "1,204 tok/s". */
export function tokensPerSecond(value: number): string {
  return `${rate(value)} tok/s`;
}

/** The number of tokensPerSecond without its unit. */
export function rate(value: number): string {
  return grouped(value, value < 99.95 ? 1 : 0);
}

/** 0.754 → "75 %". 100 % means exactly the whole, and 0 % exactly nothing. */
export function share(part: number, whole: number): string {
  if (!Number.isFinite(part) || !(whole > 0)) return dash;
  const percent = (100 * part) / whole;
  if (percent > 0 && percent < 1) return '<1 %';
  if (percent < 100 && percent > 99) return '99 %';
  return `${Math.round(percent)} %`;
}

/** How many times as fast: 1.416 → "1.42x". */
export function times(ratio: number): string {
  return Number.isFinite(ratio) ? `${ratio.toFixed(2)}x` : dash;
}

/** Seconds: "0.4 s", "12 s", "2 min 10 s", "1 h 5 min". */
export function duration(seconds: number): string {
  if (!Number.isFinite(seconds) || seconds < 0) return dash;
  if (seconds > 0 && seconds < 0.05) return '<0.1 s';
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return parts(Math.floor(whole / 60), 'min', whole % 60, 's');
  const minutes = Math.round(whole / 60);
  return parts(Math.floor(minutes / 60), 'h', minutes % 60, 'min');
}

/** A duration without tenths, for countdowns: "9 s", "1 min 5 s". */
export function wholeSeconds(seconds: number): string {
  return duration(Math.round(seconds)).replace('.0', '');
}

function parts(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large} ${largeUnit}` : `${large} ${largeUnit} ${small} ${smallUnit}`;
}

/**
 * The first part of a cache format, enough to tell formats apart: "K8 g64 + V4 g32, first and last
 * 2 layers K8 V8" → "K8 g64 + V4 g32".
 */
export function shortFormat(format: string): string {
  return format.split(',', 1)[0] ?? '';
}

/** A moment in the reader's own time zone: "14:05", "yesterday 14:05", "3 May", "3 May 2024". */
export function moment(at: number, now: number): string {
  const then = new Date(at);
  const clock = `${pad(then.getHours())}:${pad(then.getMinutes())}`;
  const days = Math.round((midnight(now) - midnight(at)) / 86_400_000);
  if (days <= 0) return clock;
  if (days === 1) return units.yesterday(clock);
  const date = `${then.getDate()} ${units.months[then.getMonth()]}`;
  return then.getFullYear() === new Date(now).getFullYear()
    ? date
    : `${date} ${then.getFullYear()}`;
}

function midnight(at: number): number {
  const date = new Date(at);
  return new Date(date.getFullYear(), date.getMonth(), date.getDate()).getTime();
}

function pad(value: number): string {
  return String(value).padStart(2, '0');
}

/** Capitalizes a text and ends it with a period: "it may have ended" → "It may have ended." */
export function sentence(text: string): string {
  const trimmed = text.trim();
  if (trimmed === '') return '';
  const start = /^[a-z]+(?=[\s,])/.test(trimmed)
    ? trimmed[0]!.toUpperCase() + trimmed.slice(1)
    : trimmed;
  return /[.?…:]$/.test(start) ? start : `${start}.`;
}

/** Fixed decimals with thousands separators, the same on every machine. */
function grouped(value: number, decimals: number): string {
  if (!Number.isFinite(value)) return dash;
  const [whole, fraction] = value.toFixed(decimals).split('.');
  const separated = (whole ?? '').replace(/\B(?=(\d{3})+$)/g, ',');
  return fraction ? `${separated}.${fraction}` : separated;
}
