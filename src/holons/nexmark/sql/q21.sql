-- q21: bids with the id of their channel: that of a known one, else what the url says.
SELECT
    auction, bidder, price, channel,
    CASE lower(channel)
        WHEN 'google' THEN '1'
        WHEN 'facebook' THEN '2'
        WHEN 'baidu' THEN '3'
        WHEN 'apple' THEN '0'
        ELSE regexp_extract(url, '[?&]channel_id=([^&]*)', 1)
    END AS channel_id
FROM bids
WHERE lower(channel) IN ('google', 'facebook', 'baidu', 'apple') OR regexp_matches(url, '[?&]channel_id=')
