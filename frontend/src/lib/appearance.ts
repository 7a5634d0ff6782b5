// Light, dark, or the system's appearance. public/appearance.js sets the background of a person's
// choice before the first paint; this module does the rest. tokens.css defines the dark palette
// once, under a media query for the system's choice. applyAppearance replaces that query to apply a
// person's choice.

export const appearances = ['system', 'light', 'dark'] as const;
export type Appearance = (typeof appearances)[number];

const key = 'headroom.appearance';
const queries: Record<Appearance, string> = {
  system: '(prefers-color-scheme: dark)',
  light: 'not all',
  dark: 'all',
};
const schemes: Record<Appearance, string> = { system: 'light dark', light: 'light', dark: 'dark' };

export function storedAppearance(storage: Storage): Appearance {
  const stored = storage.getItem(key);
  return appearances.find((appearance) => appearance === stored) ?? 'system';
}

export function saveAppearance(storage: Storage, appearance: Appearance): void {
  storage.setItem(key, appearance);
}

/** The dark rules, found by their original query. applyAppearance replaces their queries. */
let rules: CSSMediaRule[] | null = null;

export function applyAppearance(document: Document, appearance: Appearance): void {
  rules ??= [...document.styleSheets].flatMap((sheet) =>
    [...sheet.cssRules].filter(
      (rule) =>
        rule instanceof CSSMediaRule && rule.conditionText.includes('prefers-color-scheme: dark'),
    ),
  ) as CSSMediaRule[];
  for (const rule of rules) rule.media.mediaText = queries[appearance];
  const root = document.documentElement;
  root.style.colorScheme = schemes[appearance];
  root.style.removeProperty('--bg'); // of public/appearance.js
  root.dataset.appearance = appearance;
}

/** Calls `take` with whether the page is dark, now and whenever the system's appearance changes. */
export function watchDark(appearance: Appearance, take: (dark: boolean) => void): () => void {
  const system = window.matchMedia?.(queries.system);
  const tell = () =>
    take(appearance === 'dark' || (appearance === 'system' && (system?.matches ?? false)));
  tell();
  system?.addEventListener('change', tell);
  return () => system?.removeEventListener('change', tell);
}
