import { HeadroomError } from '../backend';

/** An error of the fake server, without a reason and without advice. */
export function refusal(code: string, message: string): HeadroomError {
  return new HeadroomError({ code, message, why: '', fix: '' });
}
