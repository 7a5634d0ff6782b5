// Examples that call the endpoint and run as pasted, with nothing to install. They contain the API
// key if one is required.
//
// The e2e test copies each one from the page and runs it against the live server.
import { snippets as texts } from '../strings/overview';

export interface Snippet {
  id: 'curl' | 'python' | 'javascript';
  label: string;
  /** Where it can be pasted. */
  where: string;
  code: string;
}

/**
 * Snippets for an endpoint such as http://127.0.0.1:11811/v1. The key is empty if none is required.
 */
export function snippets(endpointUrl: string, model: string, key = ''): Snippet[] {
  const url = `${endpointUrl.replace(/\/+$/, '')}/chat/completions`;
  const body = JSON.stringify({ model, messages: [{ role: 'user', content: texts.question }] });
  return [
    {
      id: 'curl',
      ...texts.curl,
      code: [
        `curl ${shellQuoted(url)} \\`,
        `  -H 'Content-Type: application/json' \\`,
        ...(key ? [`  -H ${shellQuoted(`Authorization: Bearer ${key}`)} \\`] : []),
        `  -d ${shellQuoted(body)}`,
      ].join('\n'),
    },
    {
      id: 'python',
      ...texts.python,
      code: [
        'import json, urllib.request',
        '',
        'request = urllib.request.Request(',
        `    ${JSON.stringify(url)},`,
        '    headers={',
        '        "Content-Type": "application/json",',
        ...(key ? [`        "Authorization": ${JSON.stringify(`Bearer ${key}`)},`] : []),
        '    },',
        '    data=json.dumps({',
        `        "model": ${JSON.stringify(model)},`,
        `        "messages": [{"role": "user", "content": ${JSON.stringify(texts.question)}}],`,
        '    }).encode(),',
        ')',
        'answer = json.load(urllib.request.urlopen(request))',
        'print(answer["choices"][0]["message"]["content"])',
      ].join('\n'),
    },
    {
      id: 'javascript',
      ...texts.javascript,
      code: [
        `const response = await fetch(${JSON.stringify(url)}, {`,
        "  method: 'POST',",
        '  headers: {',
        "    'Content-Type': 'application/json',",
        ...(key ? [`    Authorization: ${JSON.stringify(`Bearer ${key}`)},`] : []),
        '  },',
        '  body: JSON.stringify({',
        `    model: ${JSON.stringify(model)},`,
        `    messages: [{ role: 'user', content: ${JSON.stringify(texts.question)} }],`,
        '  }),',
        '});',
        'const answer = await response.json();',
        'console.log(answer.choices[0].message.content);',
      ].join('\n'),
    },
  ];
}

/** One word for a POSIX shell, whatever it contains. */
export function shellQuoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
