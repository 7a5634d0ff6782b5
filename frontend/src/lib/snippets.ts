// Code that sends a request to the endpoint and runs as pasted, with nothing to install. It has the
// API key if one is required.
//
// The e2e test copies each example from Overview and runs it against the live server.
import { snippets as texts } from '../strings/overview';

export interface Snippet {
  id: 'curl' | 'python' | 'javascript' | 'go';
  label: string;
  /** Where it can be pasted. */
  where: string;
  code: string;
}

/** A request to the endpoint, and the part of its answer that the code prints. */
export interface SnippetRequest {
  /** The path below the endpoint's address, such as chat/completions. */
  path: string;
  body: Record<string, unknown>;
  /** The members and indices that lead to the printed part. curl and Go print the whole answer. */
  part: readonly (string | number)[];
}

/**
 * Examples for an endpoint such as http://127.0.0.1:11811/v1. The key is empty if none is required.
 */
export function snippets(endpointUrl: string, model: string, key = ''): Snippet[] {
  const body = { model, messages: [{ role: 'user', content: texts.question }] };
  const part = ['choices', 0, 'message', 'content'];
  const request = { path: 'chat/completions', body, part };
  return requestSnippets(endpointUrl, request, key).filter(({ id }) => id !== 'go');
}

/** A request as code in four languages. */
export function requestSnippets(
  endpointUrl: string,
  { path, body, part }: SnippetRequest,
  key = '',
): Snippet[] {
  const url = `${endpointUrl.replace(/\/+$/, '')}/${path}`;
  const bearer = key && `Bearer ${key}`;
  return [
    { id: 'curl', ...texts.curl, code: curl(url, body, bearer) },
    { id: 'python', ...texts.python, code: python(url, body, bearer, part) },
    { id: 'javascript', ...texts.javascript, code: javascript(url, body, bearer, part) },
    { id: 'go', ...texts.go, code: go(url, body, bearer) },
  ];
}

type Part = SnippetRequest['part'];

/** curl has a body with at most so many characters on one line, which Overview has room for. */
const shortBodyChars = 160;

function curl(url: string, body: object, bearer: string): string {
  const short = JSON.stringify(body);
  const data = short.length <= shortBodyChars ? short : literal(body, json);
  return [
    `curl ${shellQuoted(url)} \\`,
    `  -H 'Content-Type: application/json' \\`,
    ...(bearer ? [`  -H ${shellQuoted(`Authorization: ${bearer}`)} \\`] : []),
    `  -d ${shellQuoted(data)}`,
  ].join('\n');
}

function python(url: string, body: object, bearer: string, part: Part): string {
  return [
    'import json, urllib.request',
    '',
    'request = urllib.request.Request(',
    `    ${JSON.stringify(url)},`,
    '    headers={',
    '        "Content-Type": "application/json",',
    ...(bearer ? [`        "Authorization": ${JSON.stringify(bearer)},`] : []),
    '    },',
    `    data=json.dumps(${broken(body, pythonNotation, '    ')}).encode(),`,
    ')',
    'answer = json.load(urllib.request.urlopen(request))',
    `print(answer${part.map((step) => `[${JSON.stringify(step)}]`).join('')})`,
  ].join('\n');
}

function javascript(url: string, body: object, bearer: string, part: Part): string {
  const steps = part.map((step) => (typeof step === 'number' ? `[${step}]` : `.${step}`));
  return [
    `const response = await fetch(${JSON.stringify(url)}, {`,
    "  method: 'POST',",
    '  headers: {',
    "    'Content-Type': 'application/json',",
    ...(bearer ? [`    Authorization: ${JSON.stringify(bearer)},`] : []),
    '  },',
    `  body: JSON.stringify(${broken(body, javascriptNotation, '  ')}),`,
    '});',
    'const answer = await response.json();',
    // The console shows only the first levels of an object.
    part.at(-1) === 'content'
      ? `console.log(answer${steps.join('')});`
      : `console.log(JSON.stringify(answer${steps.join('')}));`,
  ].join('\n');
}

function go(url: string, body: object, bearer: string): string {
  const text = literal(body, json);
  return [
    'package main',
    '',
    'import (',
    '\t"io"',
    '\t"log"',
    '\t"net/http"',
    '\t"os"',
    '\t"strings"',
    ')',
    '',
    'func main() {',
    `\tbody := ${text.includes('`') ? JSON.stringify(text) : `\`${text}\``}`,
    `\trequest, err := http.NewRequest("POST", ${JSON.stringify(url)}, strings.NewReader(body))`,
    '\tif err != nil {',
    '\t\tlog.Fatal(err)',
    '\t}',
    '\trequest.Header.Set("Content-Type", "application/json")',
    ...(bearer ? [`\trequest.Header.Set("Authorization", ${JSON.stringify(bearer)})`] : []),
    '\tresponse, err := http.DefaultClient.Do(request)',
    '\tif err != nil {',
    '\t\tlog.Fatal(err)',
    '\t}',
    '\tdefer response.Body.Close()',
    '\tif _, err := io.Copy(os.Stdout, response.Body); err != nil {',
    '\t\tlog.Fatal(err)',
    '\t}',
    '}',
  ].join('\n');
}

/** How a language writes a JSON value. */
interface Notation {
  indent: string;
  /** Between the braces and the members of an object on one line. */
  pad: string;
  /** Ends the last member of a list that has several lines. */
  trailing: string;
  key(name: string): string;
  /** A string, a number, a boolean or null. */
  scalar(value: unknown): string;
}

const json: Notation = {
  indent: '  ',
  pad: '',
  trailing: '',
  key: (name) => JSON.stringify(name),
  scalar: (value) => JSON.stringify(value),
};

const constants = new Map<unknown, string>([
  [true, 'True'],
  [false, 'False'],
  [null, 'None'],
]);

// JSON's strings and numbers are valid Python, and valid JavaScript.
const pythonNotation: Notation = {
  ...json,
  indent: '    ',
  trailing: ',',
  scalar: (value) => constants.get(value) ?? JSON.stringify(value),
};

const javascriptNotation: Notation = {
  ...json,
  pad: ' ',
  trailing: ',',
  // "__proto__": would set the prototype.
  key: (name) =>
    name === '__proto__'
      ? `['${name}']`
      : /^[A-Za-z_$][\w$]*$/.test(name)
        ? name
        : JSON.stringify(name),
};

/** A list or object with at most so many characters is written on one line. */
const lineChars = 64;

/** A value in a notation. margin is the indentation of the line on which it begins. */
function literal(value: unknown, notation: Notation, margin = ''): string {
  const line = onOneLine(value, notation);
  return line.length <= lineChars ? line : broken(value, notation, margin);
}

/** Like literal, but a list or object always has several lines. */
function broken(value: unknown, notation: Notation, margin: string): string {
  if (typeof value !== 'object' || value === null) return notation.scalar(value);
  const inner = margin + notation.indent;
  const members = Array.isArray(value)
    ? value.map((one) => literal(one, notation, inner))
    : Object.entries(value).map(
        ([name, one]) => `${notation.key(name)}: ${literal(one, notation, inner)}`,
      );
  const [open, close] = Array.isArray(value) ? '[]' : '{}';
  if (members.length === 0) return `${open}${close}`;
  const lines = members.join(`,\n${inner}`);
  return `${open}\n${inner}${lines}${notation.trailing}\n${margin}${close}`;
}

function onOneLine(value: unknown, notation: Notation): string {
  if (Array.isArray(value)) return `[${value.map((one) => onOneLine(one, notation)).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return notation.scalar(value);
  const members = Object.entries(value).map(
    ([name, one]) => `${notation.key(name)}: ${onOneLine(one, notation)}`,
  );
  return members.length === 0 ? '{}' : `{${notation.pad}${members.join(', ')}${notation.pad}}`;
}

/** One word for a POSIX shell, whatever it contains. */
export function shellQuoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
