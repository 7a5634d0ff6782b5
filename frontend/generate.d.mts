/** Returns the TypeScript source for an OpenAPI document. */
export function generate(document: unknown): string;
