// KaTeX with its fonts. lib/markdown.ts loads it with the first formula.
import katex from 'katex';
import 'katex/dist/katex.min.css';

/** The HTML of a formula; null for one that is not valid TeX. */
export function typeset(tex: string, display: boolean): string | null {
  try {
    return katex.renderToString(tex, {
      displayMode: display,
      throwOnError: true,
      strict: 'ignore',
      trust: false,
      maxSize: 20,
      maxExpand: 300,
    });
  } catch {
    return null;
  }
}
