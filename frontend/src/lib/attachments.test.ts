import { expect, test, vi } from 'vitest';
import { isAttachable, readAttachment, withAttachments } from './attachments';

vi.mock('./pdf', () => ({
  textOfPdf: (bytes: Uint8Array) => {
    const text = new TextDecoder().decode(bytes);
    if (text === 'locked')
      return Promise.reject(Object.assign(new Error('x'), { name: 'PasswordException' }));
    if (text === 'broken') return Promise.reject(new Error('bad XRef entry'));
    return Promise.resolve({ text, pages: 2 });
  },
}));

function file(name: string, content: string | Uint8Array, type = ''): File {
  const bytes = typeof content === 'string' ? new TextEncoder().encode(content) : content;
  const made = new File([], name, { type });
  return Object.assign(made, { arrayBuffer: () => Promise.resolve(bytes.buffer) });
}

test('texts and PDFs are read', async () => {
  expect(await readAttachment(file('a.md', '# Größe'))).toEqual({
    name: 'a.md',
    text: '# Größe',
    pages: 0,
  });
  expect(await readAttachment(file('Makefile', 'all:'))).toMatchObject({ text: 'all:' });
  expect(await readAttachment(file('A.PDF', 'page'))).toEqual({
    name: 'A.PDF',
    text: 'page',
    pages: 2,
  });
  const utf16 = new Uint8Array([0xff, 0xfe, 0x41, 0, 0xdf, 0]);
  expect((await readAttachment(file('a.txt', utf16))).text.replace('\ufeff', '')).toBe('Aß');
});

test.each([
  ['photo.png', new Uint8Array([0x89, 0x50, 0]), /cannot be attached/, /neither a text nor a PDF/],
  ['a.bin', new Uint8Array([65, 0, 66]), /cannot be attached/, /neither a text nor a PDF/],
  ['a.txt', ' \n', /has no text/, /empty/],
  ['scan.pdf', '', /has no text/, /pictures/],
  ['a.pdf', 'locked', /cannot be attached/, /password/],
  ['a.pdf', 'broken', /cannot be attached/, /bad XRef entry/],
  ['a.txt', 'x'.repeat(1_000_001), /too large/, /million/],
])('%s is refused', async (name, content, message, why) => {
  await expect(readAttachment(file(name, content))).rejects.toMatchObject({
    message: expect.stringMatching(message) as string,
    why: expect.stringMatching(why) as string,
  });
});

test('the model reads files before the question', () => {
  const files = [{ name: 'a "b".md', text: 'one\n', pages: 0 }];
  expect(withAttachments('Sum up.', files)).toBe(`<file name="a 'b'.md">\none\n</file>\n\nSum up.`);
  expect(withAttachments('Sum up.', [])).toBe('Sum up.');
});

test('a model is no attachment', () => {
  expect(['a.pdf', 'b.TXT', '/x/y.py'].every(isAttachable)).toBe(true);
  expect(['Qwen3-0.6B', 'a.safetensors', 'a.gguf'].some(isAttachable)).toBe(false);
});
