/** Matches a text that has the patterns in this order, for tests. */
export function inOrder(...patterns: RegExp[]): RegExp {
  return new RegExp(patterns.map(({ source }) => source).join('.*'));
}
