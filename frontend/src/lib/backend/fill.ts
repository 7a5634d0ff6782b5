// Replaces null lists in a document, because Go may write null for an empty list.
import { nested, type Schemas } from './schema';

/** Returns the document with empty lists in place of null ones, at every depth. */
export function filled<Name extends keyof Schemas>(name: Name, document: unknown): Schemas[Name] {
  return fill(name, document) as Schemas[Name];
}

function fill(name: string, document: unknown): unknown {
  if (typeof document !== 'object' || document === null) return document;
  const result: Record<string, unknown> = { ...document };
  for (const [field, inner] of Object.entries(nested[name] ?? {})) {
    if (!inner.startsWith('[]')) {
      if (field in result) result[field] = fill(inner, result[field]);
      continue;
    }
    const items = (result[field] ?? []) as unknown[];
    result[field] = items.map((item) => fill(inner.slice(2), item));
  }
  return result;
}
