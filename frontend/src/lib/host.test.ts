import { afterEach, expect, test, vi } from 'vitest';
import { bringsFiles, refuseDrops, saveText } from './host';

afterEach(() => vi.unstubAllGlobals());

/** A drag event with these types. */
function drag(name: string, types: string[]): DragEvent {
  const event = new Event(name, { cancelable: true }) as DragEvent;
  Object.defineProperty(event, 'dataTransfer', { value: { types } });
  return event;
}

test("files are recognized in browsers and in WebKitGTK; the page's text is not a file", () => {
  expect(bringsFiles(drag('dragover', ['Files']))).toBe(true);
  expect(bringsFiles(drag('drop', ['text/uri-list', 'text/plain']))).toBe(true);
  expect(bringsFiles(drag('dragover', []))).toBe(true);
  expect(bringsFiles(drag('dragover', ['text/plain', 'text/html']))).toBe(false);
});

test('a dropped file does not replace the page, and text can still be dragged', () => {
  const target = new EventTarget();
  refuseDrops(target);
  for (const name of ['dragenter', 'dragover', 'drop']) {
    const [file, text] = [drag(name, ['text/uri-list']), drag(name, ['text/plain'])];
    target.dispatchEvent(file);
    target.dispatchEvent(text);
    expect([file.defaultPrevented, text.defaultPrevented]).toEqual([true, false]);
  }
});

test("a text is saved with the system's dialog, or downloaded in a browser", async () => {
  const clicked: string[] = [];
  vi.spyOn(HTMLAnchorElement.prototype, 'click').mockImplementation(function (
    this: HTMLAnchorElement,
  ) {
    clicked.push(this.download);
  });
  Object.assign(URL, { createObjectURL: () => 'blob:x', revokeObjectURL: () => {} });
  expect(await saveText('a.log', 'text')).toBe('');
  expect(clicked).toEqual(['a.log']);
  vi.stubGlobal('go', {
    main: {
      Dialogs: { SaveText: async (name: string, text: string) => `/home/you/${name} with ${text}` },
    },
  });
  expect(await saveText('a.log', 'text')).toBe('/home/you/a.log with text');
  expect(clicked).toHaveLength(1);
});
