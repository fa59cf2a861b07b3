-- q13: bids with what a side table says of their auction.
SELECT bids.auction, bids.bidder, bids.price, bids.date_time, side.value
FROM bids
JOIN side ON bids.auction % 100 = side.key
