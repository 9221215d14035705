// How large a picture is shown. Pure.

interface Size {
    width: number;
    height: number;
}

const smallest = 0.1,
    largest = 4;

/** The scale at which a picture fits into its frame, at most 100 %. */
export function fitted(picture: Size, frame: Size): number {
    if (!(picture.width > 0 && picture.height > 0 && frame.width > 0)) return 1;
    return Math.max(smallest, Math.min(1, frame.width / picture.width, frame.height / picture.height));
}

/** The scale at which a picture is shown at first: whole if its words can be read then, otherwise a part of it. */
export function opened(fit: number): number {
    return fit >= 0.7 ? fit : 0.8;
}

/** The next scale in a direction, in steps of a quarter. */
export function stepped(scale: number, direction: 1 | -1): number {
    return Math.min(largest, Math.max(smallest, direction > 0 ? scale * 1.25 : scale / 1.25));
}
