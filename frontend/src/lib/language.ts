// Gives the page a language that Intl accepts. WebKitGTK reports "C" where the desktop's locale is
// C or POSIX. uPlot passes navigator.language to Intl when it loads, and the page would stay blank.
// main.ts imports this file first, only for this effect.

/**
 * The language for formatting numbers: the system's, or English if that is no valid language tag.
 */
export function usableLanguage(said: string): string {
  try {
    return Intl.getCanonicalLocales(said)[0] ?? 'en-US';
  } catch {
    return 'en-US';
  }
}

if (usableLanguage(navigator.language) !== navigator.language) {
  Object.defineProperty(navigator, 'language', {
    configurable: true,
    value: usableLanguage(navigator.language),
  });
}
