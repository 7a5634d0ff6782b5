// The per-install token: proof that this page was opened by the machine's owner.
//
// It arrives in the fragment (#token=...), which browsers send nowhere, moves to
// sessionStorage, and leaves the address bar. In the Wails window there is none: the
// window's proxy adds it to every request.

const storageKey = 'headroom.token';

/** Takes the token out of the address, or from this tab's memory; empty when there is none. */
export function takeToken(): string {
  const fragment = new URLSearchParams(location.hash.slice(1));
  const token = fragment.get('token');
  if (token) {
    remember(token);
    fragment.delete('token');
    const rest = fragment.toString();
    history.replaceState(null, '', location.pathname + location.search + (rest ? `#${rest}` : ''));
    return token;
  }
  try {
    return sessionStorage.getItem(storageKey) ?? '';
  } catch {
    return '';
  }
}

function remember(token: string): void {
  try {
    sessionStorage.setItem(storageKey, token);
  } catch {
    // Storage is off: the token lives as long as the page.
  }
}
