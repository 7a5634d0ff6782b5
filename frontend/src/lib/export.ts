// A conversation as a file: Markdown to read, JSON to read by programs.
import type { Conversation, Message } from './stores/conversations';
import { exported as t } from '../strings/chat';

type Exported = Pick<Conversation, 'title' | 'updatedAt' | 'messages' | 'setup'>;

export function asMarkdown({ title, messages, setup }: Exported): string {
  const parts = [`# ${title || t.untitled}`];
  if (setup.prompt) parts.push(`## ${t.systemPrompt}`, setup.prompt);
  for (const message of messages) {
    parts.push(`## ${message.role === 'user' ? t.question : t.answer(message.model)}`);
    for (const { name, text } of message.attachments)
      parts.push(`### ${t.attachment(name)}`, fenced(text));
    if (message.content) parts.push(message.content);
    for (const { name, arguments: given } of message.calls)
      parts.push(`### ${t.call(name)}`, fenced(given));
    if (message.error) parts.push(`*${message.error.message}*`);
  }
  return `${parts.join('\n\n')}\n`;
}

/** A code block whose fence is longer than any in the text. */
function fenced(text: string): string {
  const longest = Math.max(2, ...[...text.matchAll(/`{3,}/g)].map(([one]) => one.length));
  const fence = '`'.repeat(longest + 1);
  return `${fence}\n${text.replace(/\n$/, '')}\n${fence}`;
}

/** The messages as the file of a chat has them, without versions that are not shown. */
export function asJson({ title, updatedAt, messages, setup }: Exported): string {
  const shown = messages.map(({ others: _, version: __, ...message }: Message) => message);
  const document = { title, updatedAt: new Date(updatedAt).toISOString(), setup, messages: shown };
  return `${JSON.stringify(document, null, 2)}\n`;
}

/** A file name from a title. */
export function fileName(title: string, extension: string): string {
  const name = title
    .replace(/[^\p{L}\p{N}]+/gu, '-')
    .replace(/^-|-$/g, '')
    .slice(0, 60);
  return `${name || 'chat'}.${extension}`;
}
