// The current page. It is part of the address (#page=chat), so that a reload shows it again.

export class Router {
  /** The id of the current page. */
  page = $state('');
  readonly #ids: () => readonly string[];

  /** ids returns the pages of the table; the first is shown when the address names none. */
  constructor(ids: () => readonly string[]) {
    this.#ids = ids;
    this.page = this.#fromAddress();
    window.addEventListener('hashchange', () => (this.page = this.#fromAddress()));
  }

  go(page: string): void {
    this.page = page;
    history.replaceState(null, '', `#page=${page}`);
  }

  #fromAddress(): string {
    const wanted = new URLSearchParams(location.hash.slice(1)).get('page');
    const ids = this.#ids();
    return ids.find((id) => id === wanted) ?? ids[0] ?? '';
  }
}
