// Gives the page a language that Intl takes. WebKitGTK says "C" where the desktop's locale is C or POSIX, and uPlot hands
// navigator.language to Intl as it loads: the page would stay blank. Imported first, for that effect alone.

/** The language the page may format numbers in: what the system says, or English if that is no language tag. */
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
