// Generates src/lib/backend/schema.ts from src/lib/backend/openapi.json, the control API's
// document. `npm run generate` writes the file. schema.test.ts and build/check fail when it is
// stale, and TestFrontendHasThisDocument in app/control fails when openapi.json is.
import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

const folder = new URL('./src/lib/backend/', import.meta.url);

const header = (hash) => `// Code generated from openapi.json by \`npm run generate\`. DO NOT EDIT.
// SHA-256 of openapi.json: ${hash}
//
// The JSON documents of the control API. The Go type of the same name, with its package as the
// prefix (HostState is host.State), documents the fields. Sizes are bytes, times are milliseconds
// since 1970 unless a name says otherwise. Go may send null for an empty list: filled() in
// fill.ts mends that, so lists are never null here.
`;

/** Returns the TypeScript source for the text of an OpenAPI document. */
export function generate(text) {
  const document = JSON.parse(text);
  const schemas = Object.entries(document.components.schemas);
  const interfaces = schemas.map(([name, schema]) => interfaceOf(name, schema));
  const names = schemas.map(([name]) => `  ${name}: ${name};\n`);
  const nested = schemas.flatMap(([name, schema]) => nestedOf(name, schema));
  return [
    header(createHash('sha256').update(text).digest('hex')),
    ...interfaces,
    `/** Every schema by its name. */\nexport interface Schemas {\n${names.join('')}}\n`,
    '/** The fields that hold lists ("[]") or other documents (a schema\'s name), by schema. */\n' +
      `export const nested: Record<string, Record<string, string>> = {\n${nested.join('')}};\n`,
  ].join('\n');
}

function interfaceOf(name, { properties, required = [] }) {
  const fields = Object.entries(properties).map(([field, schema]) => {
    const optional = !required.includes(field);
    // Go leaves an optional field out instead of writing null, and reads null as missing.
    const type = typeOf(optional ? withoutNull(schema) : schema);
    return `  ${field}${optional ? '?' : ''}: ${type};\n`;
  });
  return `export interface ${name} {\n${fields.join('')}}\n`;
}

function withoutNull(schema) {
  const [only, other] = (schema.oneOf ?? []).filter(({ type }) => type !== 'null');
  return only && !other ? only : schema;
}

function typeOf(schema) {
  if (schema.$ref) return referenced(schema);
  if (schema.enum) return schema.enum.map((value) => `'${value}'`).join(' | ');
  if (schema.oneOf) return schema.oneOf.map(typeOf).join(' | ');
  const type = [schema.type].flat()[0];
  switch (type) {
    case undefined:
      return 'unknown';
    case 'integer':
      return 'number';
    case 'array': {
      const items = typeOf(schema.items);
      return items.includes('|') ? `(${items})[]` : `${items}[]`;
    }
    case 'object':
      return `Record<string, ${typeOf(schema.additionalProperties ?? {})}>`;
    default:
      return type;
  }
}

/** The row of one schema in nested; none when it holds no lists and no documents. */
function nestedOf(name, { properties, required = [] }) {
  const fields = Object.entries(properties).flatMap(([field, schema]) => {
    const inner = withoutNull(schema);
    if (inner.$ref) return [`${field}: '${referenced(inner)}'`];
    if ([inner.type].flat()[0] !== 'array' || !required.includes(field)) return [];
    return [`${field}: '[]${inner.items.$ref ? referenced(inner.items) : ''}'`];
  });
  return fields.length > 0 ? [`  ${name}: { ${fields.join(', ')} },\n`] : [];
}

function referenced({ $ref }) {
  return $ref.slice($ref.lastIndexOf('/') + 1);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const text = await readFile(new URL('openapi.json', folder), 'utf8');
  await writeFile(new URL('schema.ts', folder), generate(text));
}
