// Formulas: TeX between $ $, $$ $$, \( \) and \[ \] in Markdown, and their HTML.
//
// KaTeX writes HTML of its own from escaped text; `trust` off keeps links and images out of it. It
// enters the page after the sanitizer, which would drop its styles.
import type { MarkedExtension, Tokens } from 'marked';

/** A formula as marked's token. */
interface Formula extends Tokens.Generic {
  tex: string;
  display: boolean;
}

// Each pattern has a bound, so that text which opens formulas and closes none is read in linear
// time.
const blocks = [
  /^ {0,3}\$\$((?:[^$\\]|\\[^]|\$(?!\$)){1,8000}?)\$\$[ \t]*(?:\n+|$)/,
  /^ {0,3}\\\[((?:[^\\]|\\[^\]]){1,8000}?)\\\][ \t]*(?:\n+|$)/,
];
const inlines: [RegExp, display: boolean][] = [
  [/^\\\(((?:[^\\]|\\[^)]){1,2000}?)\\\)/, false],
  [/^\\\[((?:[^\\]|\\[^\]]){1,2000}?)\\\]/, true],
  [/^\$\$((?:[^$\\]|\\[^]){1,2000}?)\$\$/, true],
  // Prices are no formulas: "$5 and $10", "$5-$10".
  [/^\$(?![\s$])((?:[^$\\\n]|\\[^\n]){0,500}?(?:[^$\\\s]|\\\S))\$(?!\d)/, false],
];

/** The marked extension. `place` returns the HTML that stands for a formula. */
export function formulas(place: (tex: string, display: boolean) => string): MarkedExtension {
  const renderer = (token: Tokens.Generic) => {
    const { tex, display } = token as Formula;
    return place(tex, display);
  };
  return {
    extensions: [
      {
        name: 'formulaBlock',
        level: 'block',
        start: (text: string) => /(?:^|\n) {0,3}(?:\$\$|\\\[)/.exec(text)?.index,
        tokenizer(text: string): Formula | undefined {
          const found = firstOf(blocks, text);
          return found && { type: 'formulaBlock', raw: found[0], tex: found[1]!, display: true };
        },
        renderer,
      },
      {
        name: 'formula',
        level: 'inline',
        start: (text: string) => /\$|\\[([]/.exec(text)?.index,
        tokenizer(text: string): Formula | undefined {
          for (const [pattern, display] of inlines) {
            const found = pattern.exec(text);
            if (found?.[1]!.trim())
              return { type: 'formula', raw: found[0], tex: found[1]!, display };
          }
          return undefined;
        },
        renderer,
      },
    ],
  };
}

function firstOf(patterns: readonly RegExp[], text: string): RegExpExecArray | undefined {
  for (const pattern of patterns) {
    const found = pattern.exec(text);
    if (found?.[1]!.trim()) return found;
  }
  return undefined;
}
