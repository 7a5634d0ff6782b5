import { expect, test } from 'vitest';
import { asJson, asMarkdown, fileName } from './export';
import { newConversation, newMessage } from './stores/conversations';

function conversation() {
  const one = newConversation(Date.UTC(2026, 10, 28, 9));
  one.title = 'Caches, in short';
  one.setup.prompt = 'Be brief.';
  const file = { name: 'a.md', text: '```js\nlet a\n```\n', pages: 0 };
  const before = [newMessage('user', 'Before')];
  one.messages.push(
    { ...newMessage('user', 'What is this?'), attachments: [file], others: [before], version: 1 },
    { ...newMessage('assistant', '**Code.**', 'qwen'), calls: [{ name: 'look', arguments: '{}' }] },
  );
  return one;
}

test('a chat as Markdown', () => {
  expect(asMarkdown(conversation())).toBe(`# Caches, in short

## System prompt

Be brief.

## You

### Attachment: a.md

\`\`\`\`
\`\`\`js
let a
\`\`\`
\`\`\`\`

What is this?

## Answer (qwen)

**Code.**

### Calls look

\`\`\`
{}
\`\`\`
`);
});

test('a chat as JSON, without the versions that are not shown', () => {
  const document = JSON.parse(asJson(conversation())) as Record<string, unknown>;
  expect(document).toMatchObject({
    title: 'Caches, in short',
    updatedAt: '2026-11-28T09:00:00.000Z',
    setup: { prompt: 'Be brief.' },
    messages: [{ role: 'user', attachments: [{ name: 'a.md' }] }, { content: '**Code.**' }],
  });
  expect(JSON.stringify(document)).not.toContain('Before');
});

test.each([
  ['Caches, in short', 'md', 'Caches-in-short.md'],
  ['../../etc/passwd', 'json', 'etc-passwd.json'],
  ['Größe?', 'md', 'Größe.md'],
  ['', 'md', 'chat.md'],
])('%j is the file %s', (title, extension, name) => expect(fileName(title, extension)).toBe(name));
