// The text of a PDF, by pdf.js. lib/attachments.ts loads this file lazily.
//
// The legacy build runs in the WebKit of older systems, too. Only text is read: nothing is drawn,
// and no fonts, images or addresses of the document are loaded.
import { getDocument, GlobalWorkerOptions } from 'pdfjs-dist/legacy/build/pdf.mjs';
import workerUrl from 'pdfjs-dist/legacy/build/pdf.worker.min.mjs?url';

GlobalWorkerOptions.workerSrc = workerUrl;

/** Takes over the bytes. */
export async function textOfPdf(bytes: Uint8Array): Promise<{ text: string; pages: number }> {
  const loading = getDocument({
    data: bytes,
    useWorkerFetch: false,
    useWasm: false,
    disableFontFace: true,
    stopAtErrors: false,
    verbosity: 0,
  });
  try {
    const pdf = await loading.promise;
    const texts: string[] = [];
    for (let number = 1; number <= pdf.numPages; number++) {
      const page = await pdf.getPage(number);
      const { items } = await page.getTextContent();
      texts.push(
        items
          .map((item) => ('str' in item ? item.str + (item.hasEOL ? '\n' : '') : ''))
          .join('')
          .trim(),
      );
      page.cleanup();
    }
    return { text: texts.filter(Boolean).join('\n\n'), pages: pdf.numPages };
  } finally {
    await loading.destroy();
  }
}
