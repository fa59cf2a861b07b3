-- q0: all bids, as they are.
SELECT auction, bidder, price, channel, url, date_time, extra
FROM bids
