/** Returns the TypeScript source for the text of an OpenAPI document. */
export function generate(text: string): string;
