/** A value inside a sentence, already formatted. */
export type Text = string | number;

/** A count with its noun: "1 file", "2,048 files". */
export function counted(count: Text, one: string, many: string): string {
  return `${count} ${String(count) === '1' ? one : many}`;
}
