// Files that are added to a question, as text. PDFs are read by pdf.js, which is loaded with the
// first one.
import { HeadroomError } from './backend/backend';
import type { Attachment } from './stores/conversations';
import { attachments as t } from '../strings/chat';

const mostFileBytes = 50e6;
/** About 250,000 tokens. */
const mostChars = 1e6;

/** The endings of texts and PDFs. */
const endings = new Set(
  (
    'pdf txt text md markdown rst tex csv tsv json jsonl yaml yml toml ini cfg conf log xml html ' +
    'htm css svg js jsx mjs cjs ts tsx mts cts svelte vue py rb go rs swift m mm c cc cpp h hpp ' +
    'cs java kt kts scala php pl lua r sql sh zsh fish bat ps1 patch diff srt vtt ics eml'
  ).split(' '),
);

/** Whether a file's name is that of a text or PDF. */
export function isAttachable(name: string): boolean {
  return endings.has(/\.(\w+)$/.exec(name)?.[1]!.toLowerCase() ?? '');
}

/** Reads a file. Throws a HeadroomError that says why a file cannot be attached. */
export async function readAttachment(file: File): Promise<Attachment> {
  if (file.size > mostFileBytes) throw refusal(t.tooLarge(file.name), t.tooLargeWhy, t.tooLongFix);
  const isPdf = file.type === 'application/pdf' || /\.pdf$/i.test(file.name);
  const bytes = new Uint8Array(await file.arrayBuffer());
  const { text, pages } = isPdf
    ? await pdfText(file.name, bytes)
    : { text: plainText(file.name, bytes), pages: 0 };
  if (text.trim() === '')
    throw refusal(t.empty(file.name), isPdf ? t.emptyPdfWhy : t.emptyWhy, t.emptyFix);
  if (text.length > mostChars) throw refusal(t.tooLarge(file.name), t.tooLongWhy, t.tooLongFix);
  return { name: file.name, text, pages };
}

async function pdfText(name: string, bytes: Uint8Array): Promise<{ text: string; pages: number }> {
  const { textOfPdf } = await import('./pdf');
  try {
    return await textOfPdf(bytes);
  } catch (cause) {
    const isLocked = (cause as Error).name === 'PasswordException';
    throw refusal(
      t.unreadable(name),
      isLocked ? t.lockedWhy : t.damagedWhy((cause as Error).message),
      t.emptyFix,
    );
  }
}

function plainText(name: string, bytes: Uint8Array): string {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    if (!text.includes('\0')) return text;
  } catch {
    // It is no UTF-8. UTF-16 begins with a mark.
    const mark = bytes[0] === 0xff && bytes[1] === 0xfe;
    if (mark) return new TextDecoder('utf-16le').decode(bytes);
  }
  throw refusal(t.unreadable(name), t.notTextWhy, t.notTextFix);
}

function refusal(message: string, why: string, fix: string): HeadroomError {
  return new HeadroomError({ code: '', message, why, fix });
}

/** A question as the model reads it: the attached files, then the text. */
export function withAttachments(text: string, attachments: readonly Attachment[]): string {
  const files = attachments.map(
    ({ name, text: content }) =>
      `<file name="${name.replaceAll('"', "'")}">\n${content.replace(/\n$/, '')}\n</file>`,
  );
  return [...files, text].filter(Boolean).join('\n\n');
}
